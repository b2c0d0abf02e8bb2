# Two users want the same beamline. Run it while `kalends demo --keep` runs, with the environment that
# it prints.
export KALENDS_ZONE=America/Los_Angeles

# Three people with tokens of their own.
unset KALENDS_TOKEN_FILE
for user in ann bob cyd; do kalends admin token --key "$KALENDS_FACILITY/keys/people" --issuer people --user "$user" --group crystallography --audience npaci --to "$user.token"; done
id() { python3 -c 'import json, sys; print(json.load(sys.stdin)["data"][0]["id"])'; }

# Cyd has the room next Monday at ten.
kalends --token-file cyd.token book ncsa/cave --for 2h --at 'next monday 10:00'
cyd=$(kalends --token-file cyd.token list --json | id)

# Bob needs the room and the beamline together, then. At once it cannot be had.
kalends --token-file bob.token book 'caltech/beamline + ncsa/cave' --for 2h --at 'next monday 10:00' --no-wait

# So he joins the waiting list. He holds nothing while he waits.
kalends --token-file bob.token book 'caltech/beamline + ncsa/cave' --for 2h --at 'next monday 10:00' --when-free
bob=$(kalends --token-file bob.token list --waiting --json | id)
kalends --token-file bob.token list --waiting

# Ann comes later, and holds the beamline to think it over.
kalends --token-file ann.token hold caltech/beamline --for 2h --at 'next monday 10:00'
ann=$(kalends --token-file ann.token list --json | id)
seen=$(kalends --token-file ann.token why "$ann" --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["data"]["events"][-1]["number"])')

# Cyd cancels. The room is offered to Bob, and his request is older than Ann's hold: Ann has a minute.
kalends --token-file cyd.token cancel "$cyd"
kalends --token-file ann.token watch "$ann" --after "$seen" --count 1
kalends --token-file bob.token list --waiting

# She could lock it. She gives it back, and Bob has both.
kalends --token-file ann.token release "$ann"
kalends --token-file bob.token show "$bob" --follow 2> progress.txt

# What happened to it?
kalends --token-file bob.token why "$bob"
kalends --token-file bob.token cancel "$bob"
