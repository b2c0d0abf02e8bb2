# Agents, from a first try to a replay. Run it in the directory of kalends while `kalends demo --keep`
# runs, with the environment that it prints.
export KALENDS_ZONE=America/Los_Angeles

# A first try. Every rule of the language that it breaks is told, with what to write instead.
kalends agent check examples/agents/mornings-first-try.agent.py

# Fixed: it follows the rules, and this is its cost on sample calendars.
kalends agent check examples/agents/mornings.agent.py

# What would it choose? Calendars kept in files are enough to see; nothing is asked of anybody.
kalends calendar caltech/beamline --from 'next monday' --for 2d --json > "$KALENDS_FACILITY/beamline.json"
kalends agent run examples/agents/mornings.agent.py caltech/beamline --for 2h --after 'next monday' --calendar "$KALENDS_FACILITY/beamline.json" --argument at=15:30
kalends agent run ready:earliest caltech/beamline --for 2h --after 'next monday' --calendar "$KALENDS_FACILITY/beamline.json" | head -4

# Keep it at the broker, and book with it: it chooses at all sites that are asked.
kalends agent upload mornings examples/agents/mornings.agent.py
kalends agent list
kalends book 'sdsc/sp2:64 + caltech/beamline' --for 2h --after 'next monday' --before 'next monday 23:59' --agent mornings --argument at=13:30
id=$(kalends list --state reserved --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["data"][0]["id"])')

# What happened, and what has it left for us?
kalends why "$id"

# An agent that fails stops no booking: the sites choose for it, and say why.
kalends book ncsa/cave --for 1h --after 'next monday 09:00' --before 'next monday 17:00' --agent examples/agents/mornings.agent.py --argument at=noon
failed=$(kalends list --state reserved --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["data"][0]["id"])')
kalends why "$failed"

# A site keeps a record of every run; the broker gives a pass for it. The same comes out here.
kalends agent runs "$id" --site sdsc
run=$(kalends agent runs "$id" --site sdsc --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["data"][0]["run"])')
kalends agent replay "$run" --site sdsc

# What is not needed any more is given back.
kalends agent delete mornings
kalends cancel "$id"
kalends cancel "$failed"
