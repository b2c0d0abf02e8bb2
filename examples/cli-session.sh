# A terminal session. Run it while `kalends demo --keep` runs, with the environment that it prints.
export KALENDS_ZONE=America/Los_Angeles

# Keep in a profile which broker is called, and as whom: then no variable has to say it.
export KALENDS_CONFIG=$PWD/config.toml
kalends login --broker "$KALENDS_BROKER" --token-file "$KALENDS_TOKEN_FILE" | sed 's/, until .*//'
unset KALENDS_BROKER KALENDS_TOKEN_FILE
kalends whoami | grep -v ' good '

# What is there, and when could it start?
kalends resources
kalends find 'sdsc/sp2:64 + caltech/beamline + ncsa/cave' --for 2h --at 'next monday 10:00'

# Book all of it, or nothing; what was understood is said before it is sent.
kalends book 'sdsc/sp2:64 + caltech/beamline + ncsa/cave' --for 2h --at 'next monday 10:00' --note 'run 7'
id=$(kalends list --state reserved --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["data"][0]["id"])')
kalends list
kalends calendar caltech/beamline --from 'next monday 08:00' --for 10h

# Plans change; the old time is kept until all sites have agreed to the new one.
kalends move "$id" --to 'next monday 13:00'
kalends extend "$id" --by 30m

# A hold is for thinking it over: lock it, or release it.
kalends hold 'sdsc/sp2:16' --for 1h --at 'next monday 20:00' --keep 5m
held=$(kalends list --state held --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["data"][0]["id"])')
kalends release "$held"

# What happened to it?
kalends why "$id"
kalends cancel "$id"
