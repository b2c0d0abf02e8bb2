# First mistakes, and what each prints. Run it while `kalends demo --keep` runs, with the environment
# that it prints. Nothing is booked, and every refusal says what to do.
export KALENDS_ZONE=America/Los_Angeles

# A number without a unit is no duration.
kalends book sdsc/sp2:64 --for 2

# A unit that there is not.
kalends book sdsc/sp2:64 --for 2x

# Units have no unit: it is 64, not 64 nodes.
kalends book 'sdsc/sp2:64nodes' --for 2h

# A time that has passed.
kalends book sdsc/sp2:64 --for 2h --at '2026-01-05 10:00'

# A resource, a site and a command that there are not.
kalends book sdsc/sp3:64 --for 2h
kalends book sdcs/sp2:64 --for 2h
kalends boook sdsc/sp2:64 --for 2h

# More nodes than there are, and more than the owner lends to one user.
kalends book sdsc/sp2:500 --for 2h
kalends book sdsc/sp2:128 --for 2h

# Outside the opening hours.
kalends book caltech/beamline --for 2h --at 'next sunday 10:00'
kalends book caltech/beamline --for 2h --at 'next monday 17:00'

# Off the resource's grain of half an hour.
kalends book caltech/beamline --for 2h --at 'next monday 10:10'
kalends book caltech/beamline --for 45m --after 'next monday 10:00'

# Longer than the window.
kalends book sdsc/sp2:64 --for 4h --after 'next monday 10:00' --before 'next monday 12:00'

# No token, somebody else's token, a token that is too old, a file that is not there.
KALENDS_TOKEN_FILE= kalends list
KALENDS_TOKEN_FILE= kalends list --token not.a.token
kalends admin token --key "$KALENDS_FACILITY/keys/people" --issuer people --user ada --audience npaci --for 1s --to "$KALENDS_FACILITY/tokens/short"
sleep 1
kalends list --token-file "$KALENDS_FACILITY/tokens/short"
kalends list --token-file no-such-file

# An id that nobody has, and one that is no id.
kalends cancel 0badc0de
kalends cancel my-booking

# Nobody listens there.
kalends list --broker http://127.0.0.1:9

# A site is down: the other sites can be booked. Without --no-wait, the booking would wait for it.
kill -9 "$(cat "$KALENDS_FACILITY/ncsa.pid")"
kalends resources
kalends book 'sdsc/sp2:64 + ncsa/cave' --for 2h --no-wait
