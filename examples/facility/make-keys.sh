#!/bin/sh
# The keys of the facility and the tokens of its people, in the folder of this script or the one given.
# Once: `kalends admin key` never overwrites a key.
set -eu
umask 077
cd "${1:-$(dirname "$0")}"
mkdir -p keys tokens

# In real life each owner makes its own key at home, and only the .pub files travel.
kalends admin key keys/people
kalends admin key keys/npaci

token() { # token USER GROUP OPTIONS...: good for a working day
    user=$1 group=$2
    shift 2
    kalends admin token --key keys/people --issuer people --user "$user" --group "$group" \
        --for 10h "$@" > "tokens/$user"
}

token ada crystallography --audience npaci
token bob crystallography --audience npaci
token operator operators --scope use --scope audit --scope admin \
    --audience npaci --audience sdsc --audience caltech --audience ncsa --audience west
