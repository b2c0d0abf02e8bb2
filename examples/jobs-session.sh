# A day in the machine room: a site whose machine `lab/box` has four nodes, and a broker. docs/jobs.md shows
# how to configure such a site.
export KALENDS_ZONE=UTC KALENDS_USER=ann IN="--directory $PWD"

# Ann submits a job for two nodes, and Bob one for the other two.
kalends submit lab/box $IN -n 2 --for 10m --name model -- sh -c 'echo on nodes $KALENDS_NODES; until [ -e go ]; do sleep 0.1; done; echo done' | head -1
kalends submit lab/box $IN -n 2 --for 10m --name scan --user bob -- sleep 600 | head -1
until kalends job lab/box/1 | grep -q 'running' && kalends job lab/box/2 | grep -q 'running'; do sleep 0.1; done

# The next one needs all nodes: it waits, and is told when it is expected to start.
kalends submit lab/box $IN -n 4 --for 5m --name whole -- echo all four | head -1
until kalends queue lab/box | grep 'whole' | grep -q ' 20[0-9][0-9]-'; do sleep 0.1; done
kalends queue lab/box
touch go
kalends log -f lab/box/1
until kalends job lab/box/1 | grep -q 'ended'; do sleep 0.1; done

# Somebody reserves the whole machine by the broker, in 17 minutes. What runs stays out of its way.
kalends book lab/box:4 --for 10m --at now+17m --user eve | tail -2
kalends submit lab/box $IN --for 30m --name long -- true | head -1
kalends submit lab/box $IN --for 1m --name short -- true | head -1
until kalends job lab/box/5 | grep -q 'ended'; do sleep 0.1; done
until kalends queue lab/box | grep 'long' | grep -q ' 20[0-9][0-9]-'; do sleep 0.1; done
kalends queue lab/box

# The schedule: rows are time, columns are nodes. Bob runs, then `whole` comes, Eve's reservation, and `long`.
until kalends queue lab/box --plan | grep -q '^b '; do sleep 0.1; done
kalends queue lab/box --plan | grep -o '[aAb.=]\{4\} *[0-9]$' | grep -v '^[.]\{4\}'

# What a job of Ann's may ask for to start at once.
kalends machine lab/box --gaps | sed 1d | cut -c 1-5

kalends machine lab/box | tail -n +3

# Bob changes his mind, and Ann's job for the whole machine runs.
kalends kill lab/box/2 --user bob | cut -d ' ' -f 1
until kalends job lab/box/3 | grep -q 'ended'; do sleep 0.1; done
kalends log lab/box/3

# An operator drains two nodes. Eve's reservation needs all four: it moves to another time, and `long`, which waited
# for its end, runs. What asks for more than the other two waits.
kalends admin nodes lab/box drain 2-3 --reason 'new fans' | head -1
until kalends job lab/box/4 | grep -q 'ended'; do sleep 0.1; done
kalends list --user eve | tail -1 | cut -c 11-33
kalends submit lab/box $IN -n 3 --for 1m --name three -- true | head -1
kalends job lab/box/6 | grep state
kalends admin nodes lab/box resume 2-3
until kalends job lab/box/6 | grep -q 'ended'; do sleep 0.1; done

# Another policy decides from now on.
kalends admin policy lab/box sjf
kalends admin replan lab/box | tail -1

# Ann has a program to talk to. Her line is lost (here her command is killed); the program goes on, and
# she comes back to where it was.
mkfifo keys; touch seen
kalends run lab/box $IN --for 10m --name talk -- sh -c 'echo ready; while read line; do echo "you said $line"; done' <keys >seen 2>notes & exec 3>keys
until grep -q ready seen; do sleep 0.1; done; echo hello >&3
until grep -q hello seen; do sleep 0.1; done; cat seen
kill -KILL $!; exec 3>&-; kalends job lab/box/7 | grep state
echo 'it is me again' | kalends attach lab/box/7
kalends job lab/box/7 | grep ended

# Ann reserves two nodes for two minutes, and runs a job there. It ends when she gives them back.
BOOKED=$(kalends book lab/box:2 --for 2m --at now+10s --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["data"]["id"])')
kalends submit lab/box $IN --reservation $BOOKED -n 3 -- true
kalends submit lab/box $IN --reservation $BOOKED -n 2 --name stream -- sleep 600 | head -1
kalends submit lab/box $IN --reservation $BOOKED --user bob -- true
until kalends job lab/box/8 | grep -q 'running'; do sleep 0.1; done
sleep 1.1  # reserved time counts in whole seconds
kalends cancel $BOOKED | head -1
until kalends job lab/box/8 | grep -q 'ended'; do sleep 0.1; done
kalends job lab/box/8 | grep ended

# A measurement has to begin at a certain time: its nodes are booked at once, beside those of Eve's reservation.
kalends submit lab/box $IN -n 3 --for 30m --at now+1h --name measure -- ./measure | head -1
kalends queue lab/box --plan | grep -o '[aAb.=]\{4\} *[0-9]$' | grep -v '^[.]\{4\}'
kalends submit lab/box $IN -n 2 --for 1h --at now+1h -- true
kalends kill lab/box/9

# What everybody did, and what it comes to: sums, a row for each job, a log for simulators. The owner replays the
# day as it was, and under other policies.
kalends queue lab/box --over
sleep 2.1  # usage tells what had ended when this second began
kalends usage lab/box --everyone | cut -c 1-23 | sort
kalends usage lab/box --everyone --csv - | cut -d , -f 1,2,9,17 | sort -n
kalends usage lab/box --everyone --swf day.swf && grep '^; User' day.swf && grep -c '^[0-9]' day.swf
kalends simulate --from-site lab/box --from now-1h --to now+1h --policy easy,fcfs 2>notes | tail -3 | cut -c 1-10

# Mistakes are told at once.
kalends submit lab/box $IN -n 5 --for 1h -- ./solve
kalends submit lab/box $IN -n 1 -- ./solve
kalends submit lab/box $IN --for 1m -- no-such-program | head -1
until kalends job lab/box/10 | grep -q 'ended'; do sleep 0.1; done
kalends job lab/box/10 | grep ended
