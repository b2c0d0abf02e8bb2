# Jobs that may run anywhere: two sites of different owners, and a broker. docs/federation.md shows how.
export KALENDS_ZONE=UTC KALENDS_USER=ann IN="--directory $PWD"

# The small machine is busy for ten minutes.
kalends submit small/box $IN -n 2 --for 10m -- sleep 600 | head -1
until kalends job small/box/1 | grep -q 'running'; do sleep 0.1; done

# Ann does not care where her job runs: the sites bid for it, and it is submitted where it ends first.
kalends submit $IN -n 2 --for 5m -- sh -c 'echo here; until [ -e go ]; do sleep 0.1; done' | head -1

# Four nodes has only one of them, and they are not free yet: the promised start is when the first job is over.
kalends submit $IN -n 4 --for 1m --name wide -- echo on four nodes | head -1

# What a machine must have can be said; what nobody can do is refused with the reason of each.
kalends submit $IN --for 1m --on 'memory>=512' -- true
kalends submit $IN -n 64 --for 1m -- true
kalends submit $IN -n 2 --for 1h --end-by now+10m -- true

# The other bids, and what the broker has learned of the sites.
kalends sites | cut -c 1-24
kalends admin bids | head -3 | cut -c 1-22
kalends list | grep -o 'job on.*'
kalends why $(kalends list | grep 'job on any machine, 2' | cut -d ' ' -f 1) | sed 's/ ([0-9]*% busy)//g' | grep -o '[0-9] of .* ends'

# What a site is worth is given as a time: on the small machine this one may end up to half an hour later.
dear=$(kalends submit $IN --for 1m --prefer 'site=small:30m' --home small -- echo worth the wait | head -1)
echo $dear | cut -d / -f 1
kalends why $(kalends list | head -2 | tail -1 | cut -d ' ' -f 1) | grep -o 'is preferred by 30m\|with your preferences is'

# A job in two queues starts once, at the first that can; the other place is given up at once.
twin=$(kalends submit $IN -n 2 --for 1m --redundant -- echo only once)
echo $twin | grep -o 'waits as .*box'
other=$(echo $twin | grep -o '[a-z]*/box/[0-9]*' | tail -1)

# From then on they are jobs of their sites, as all others.
touch go
until kalends job large/box/1 | grep -q 'ended'; do sleep 0.1; done
kalends log large/box/1
until kalends job large/box/2 | grep -q 'ended'; do sleep 0.1; done
kalends log large/box/2
until kalends job $other | grep -q 'ended'; do sleep 0.1; done
kalends job $other | grep -o 'it has started at .*'
kalends move $(kalends list | head -2 | tail -1 | cut -d ' ' -f 1) --elsewhere 2>&1 | grep started
echo 'three lines' > names
kalends run --on 'memory>=128' $IN --for 1m -- wc -w < names 2> told; head -1 told | cut -d ' ' -f 2

kalends submit $IN --for 1m --home smal -- true

# A job that can run in several ways takes the one that would end first, on each machine that is asked.
say='["sh", "-c", "echo $KALENDS_IMPLEMENTATION on $KALENDS_NODE_COUNT"]'
add() { for line in "$@"; do echo "$line"; done >> solve.toml; }
add '[[implementations]]' 'name = "wide"' 'needs = "memory>=128"' 'nodes = [2, 4]' 'formula = "400 / nodes"' "command = $say"
add '[[implementations]]' 'name = "plain"' 'run_time = "20m"' "command = $say"
way=$(kalends submit $IN --implementations solve.toml | head -1)
until kalends job $way | grep -q 'ended'; do sleep 0.1; done
kalends log $way
kalends submit large/box $IN --implementations solve.toml

# A script of the job ranks the ways to run it at each site, in the site's sandbox; its input lies at one of them.
echo 'def rank(schedules, machine): return min(schedules, key=by("nodes"))["way"]' > rank.py
ranked=$(kalends submit $IN --implementations solve.toml --rank rank.py --data large:2GB --on site=large | head -1)
kalends why $(kalends list | head -2 | tail -1 | cut -d ' ' -f 1) | grep -o 'your rank'
kalends submit $IN --for 1m --data nowhere:2GB -- true
kalends submit $IN --for 1m --data 'large:2 parsecs' -- true
sed -i 's/400/400 -/' solve.toml; kalends submit $IN --implementations solve.toml

# Whoever knows better has a script order the bids; one that fails, or answers nonsense, changes nothing.
echo 'def pick(bids):' > pick.py
echo '    return [each["machine"] for each in bids if each["site"] == "small"]' >> pick.py
mine=$(kalends submit $IN --for 1m --pick pick.py -- echo as I say | head -1)
echo $mine | cut -d / -f 1
kalends why $(kalends list | head -2 | tail -1 | cut -d ' ' -f 1) | grep -o 'ordered by your script'
sed -i 's/return.*/return bids[7]/' pick.py
kalends submit $IN --for 1m --pick pick.py -- true | head -1 | cut -d / -f 1
kalends why $(kalends list | head -2 | tail -1 | cut -d ' ' -f 1) | grep -o 'your script failed[^)]*)'
sed -i 's/pick(bids)/chosen(bids)/' pick.py; kalends submit $IN --for 1m --pick pick.py -- true

kalends kill small/box/1 | cut -d ' ' -f 1
until kalends job small/box/1 | grep -q 'ended'; do sleep 0.1; done
until kalends job $dear | grep -q 'ended'; do sleep 0.1; done
kalends log $dear
until kalends job $mine | grep -q 'ended'; do sleep 0.1; done
kalends log $mine

# What may start again goes elsewhere while it runs: it is ended here first, and starts there after that.
early=$(kalends submit $IN --rerun --for 5m -- sh -c 'echo start $KALENDS_RESTARTS; until [ -e stop ]; do sleep 0.1; done' | head -1)
until kalends job $early | grep -q 'running'; do sleep 0.1; done
late=$(kalends move $(kalends list | head -2 | tail -1 | cut -d ' ' -f 1) --elsewhere 2> told | grep -o '[a-z]*/box/[0-9]*' | head -1)
until kalends job $late | grep -q 'running'; do sleep 0.1; done
kalends job $early | grep -o 'killed: .*'
touch stop
until kalends job $late | grep -q 'ended'; do sleep 0.1; done
kalends log $early; kalends log $late

# The broker hears how they have ended, and compares bids by how long one's jobs have really run.
until kalends list | grep -q 'ended .*job on any machine, 4 nodes'; do sleep 0.1; done
kalends show $(kalends list | grep 'job on any machine, 4' | tail -1 | cut -d ' ' -f 1) | grep -o 'large/box.* ended'
kalends submit $IN --for 1h --by-limits -- true | head -1 | cut -d / -f 2
kalends why $(kalends list | head -2 | tail -1 | cut -d ' ' -f 1) | grep 'sites have bid' | grep -vc 'expected to run'
kalends submit $IN --for 1h -- true | head -1 | cut -d / -f 2
kalends why $(kalends list | head -2 | tail -1 | cut -d ' ' -f 1) | grep -o 'expected to run' | uniq
