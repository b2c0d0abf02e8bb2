# One job on machines of two owners, all of it at the same time. docs/jobs.md#in-step shows how.
export KALENDS_ZONE=UTC KALENDS_USER=ann IN="--directory $PWD"

# The small machine is busy for ten minutes, and Bob waits there: what would each start cost others?
kalends submit small/box $IN -n 2 --for 10m -- sleep 600 | head -1
until kalends job small/box/1 | grep -q 'running'; do sleep 0.1; done
kalends submit small/box $IN --user bob -n 2 --for 10m -- sleep 600 | head -1
kalends find 'small/box:2 + large/box:3' --for 5m --count 2 --explain | cut -c 1-110 | grep -o 'JOBS DELAYED\|[0-9], by up to [0-9a-z]*'

# The job is submitted to both at once, for the first time at which both have their nodes.
kalends submit 'small/box:2 + large/box:3' $IN --for 5m -- echo never > step
grep -o '[a-z]*/box  .*' step | sed 's/[A-Z][a-z]* [0-9].*confirmed/.../'
step=$(head -1 step | cut -d ' ' -f 2)

# Whoever ends one part, ends all; and whoever cancels the request.
kalends kill small/box/3 | cut -d ' ' -f 1
until kalends job large/box/1 | grep -q 'ended'; do sleep 0.1; done
kalends job large/box/1 | grep -o 'ended.*\|withdrawn.*' | grep -o 'withdrawn.*'
kalends show $step | head -1 | cut -d ' ' -f 1
kalends why $step | grep -o 'small/box/3 .*'

# Once there is room all parts start in one moment, and each knows where all of them are.
kalends kill small/box/2 | cut -d ' ' -f 1
kalends kill small/box/1 | cut -d ' ' -f 1
until kalends job small/box/1 | grep -q 'ended'; do sleep 0.1; done
kalends submit 'small/box + large/box:3' $IN --for 5m -- sh -c 'echo part $KALENDS_PART of $KALENDS_PARTS' > step
for part in small/box/4 large/box/2; do until kalends job $part | grep -q 'ended'; do sleep 0.1; done; done
kalends log small/box/4
kalends log large/box/2

# When all parts have ended, what is left of their slots is free for others, on all machines.
step=$(head -1 step | cut -d ' ' -f 2)
until kalends show $step | grep -q '^ended'; do sleep 0.1; done
kalends why $step | grep -o 'all its parts .*'

# kalends run shows what all parts write, and ends as the part that fails: that has the others ended. Each
# part can have a command of its own.
kalends run 'small/box + large/box' $IN --for 5m --part 'small/box=sh -c "echo I fail; exit 3"' --part 'large/box=sleep 600' 2> said
grep -o 'small/box/5: .*' said
kalends job large/box/3 | grep -o 'killed.*'

# What cannot run everywhere runs nowhere.
kalends submit 'small/box + large/box:3' $IN --for 5m --priority royal -- true 2>&1 | grep -o 'no-place.*'
kalends submit 'small/box + large/box:3' $IN --for 5m -n 2 -- true
kalends submit small/box $IN --for 5m --part 'small/box=true' -- true
