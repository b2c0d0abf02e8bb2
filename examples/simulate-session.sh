# Replay some days of a real machine. Run it from the directory of kalends.
# The log's header says how many nodes there are; what cannot be simulated is counted and named.
kalends simulate examples/data/sdsc-sp2-excerpt.swf

# Several policies at once: the best value of each column is marked.
kalends simulate examples/data/sdsc-sp2-excerpt.swf --policy fcfs,easy,easy-sjbf 2> dropped.txt

# Who pays for a shorter mean wait? By size, and by the queue that the log names. The log comes by a pipe here.
cat examples/data/sdsc-sp2-excerpt.swf | kalends simulate - --policy fcfs,easy-sjbf --by nodes,queue 2> dropped.txt

# If users knew how long their jobs run.
kalends simulate examples/data/sdsc-sp2-excerpt.swf --policy easy,easy-sjbf --estimates exact 2> dropped.txt

# The schedule as a log again, and as a table of jobs that evalys reads.
kalends simulate examples/data/sdsc-sp2-excerpt.swf --out easy.swf 2> dropped.txt
kalends simulate easy.swf --policy fcfs --out fcfs.csv
head -3 fcfs.csv

# Never over a file that is there.
kalends simulate easy.swf --out fcfs.csv

# Two clusters, half as large, that share jobs at a price.
kalends simulate examples/data/sdsc-sp2-excerpt.swf --machine grid:64+64 --crossing once:0.2 2> dropped.txt

# If its jobs could run on several numbers of nodes, and the smaller ones change on the way.
kalends simulate examples/data/sdsc-sp2-excerpt.swf --speedups examples/data/speedups.json --policy lazy,adaptive,reconfigurable,easy 2> dropped.txt

# One replay is one sample: shake it. 10 % more jobs a second cost more than one would think.
kalends simulate examples/data/sdsc-sp2-excerpt.swf --policy easy,fcfs --loads 1,1.1 --repeat 5 --shake 5m 2> dropped.txt

# Jobs by rule.
kalends simulate --generate lublin --nodes 64 --jobs 2000 --seed 7 --policy fcfs,easy
