# An owner needs a machine back. Run it while `kalends demo --keep` runs, with the environment that it prints.
export KALENDS_ZONE=UTC

# Ada has booked two things of two owners together.
kalends book 'ncsa/cave + sdsc/sp2:64' --for 2h --at 'next monday 10:00' --note 'run 7'
id=$(kalends list --state reserved --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["data"][0]["id"])')

# The owner of ncsa needs the cave on that morning, and says so at its own site.
ncsa=$(kalends resources --json | python3 -c 'import json, sys; print({s["site"]: s["url"] for s in json.load(sys.stdin)["data"]["sites"]}["ncsa"])')
export OWNER="--broker $ncsa --token-file $KALENDS_FACILITY/tokens/operator"
kalends admin reclaim ncsa/cave --at 'next monday 09:00' --for 2h --reason 'new projectors' --key monday-works $OWNER

# The broker moves both parts together, to the nearest time that suits both owners.
until kalends show "$id" --json | grep -q confirmed.*true && ! kalends admin reclaims $OWNER | grep -q waiting; do sleep 0.1; done
kalends why "$id"
kalends admin reclaims $OWNER

# Nothing new is taken there, until the owner is done.
kalends calendar ncsa/cave --from 'next monday 08:00' --for 6h
kalends admin reclaim --end monday-works $OWNER

# The owner of sdsc needs three quarters of sp2 for an hour of the new time: whom would that move?
sdsc=$(kalends resources --json | python3 -c 'import json, sys; print({s["site"]: s["url"] for s in json.load(sys.stdin)["data"]["sites"]}["sdsc"])')
kalends admin reclaim sdsc/sp2 --units 96 --at 'next monday 11:00' --for 1h --reason 'a broken switch' --dry-run --broker "$sdsc" --token-file "$KALENDS_FACILITY/tokens/operator"
