"""Limits on everything that comes from outside, each with its reason."""

from __future__ import annotations

from typing import Final

BODY_BYTES_MAX: Final = 256 * 1024
"""An HTTP body: a request with the most terms and text allowed is below 100 KiB."""

VALUES_MAX: Final = 32_768
"""Values in one body, without the names of fields: bounds its time. Ten thousand names of nodes fit in."""

MAPS_AND_LISTS_MAX: Final = 8_192
"""Of those values, maps and lists, which cost most: a request with all its preferences has a thousand."""

FRAME_BYTES_MAX: Final = 4 * 1024 * 1024
"""A session frame: a thousand messages in flight of a few hundred bytes, and a large view."""

FRAME_MESSAGES_MAX: Final = 2_000
"""Messages in one frame: bounds the time that one frame keeps the event loop."""

TOKEN_CHARACTERS_MAX: Final = 8_000
"""Limit that fits into one header field of the HTTP parser; 64 long group names stay below it."""

REQUEST_TEXT_MAX: Final = 4_096
"""Characters of a request's text form; people type far less, generators can use the Python form."""

ALTERNATIVES_MAX: Final = 32
TERMS_MAX: Final = 32
"""Terms in one alternative: each becomes at least one claim to commit together."""

TERMS_OF_ALL_MAX: Final = 128
"""Terms of all alternatives of one request together: each is looked for among all resources."""

NEEDS_MAX: Final = 2 * TERMS_OF_ALL_MAX
"""Needs of one request: terms of one resource that overlap make up to twice as many pieces."""

SELECTED_MAX: Final = 256
"""The N of one ``N of {attributes}`` term."""

CLAIMS_MAX: Final = 512
"""Claims of one request over all sites: bounds the decision record and every message about it."""

ATTRIBUTES_MAX: Final = 64
COMPARISONS_MAX: Final = 256
"""Different comparisons of one request: each is made with all resources that there are."""

PRIORITY_MAX: Final = 100
"""Minutes of head start that a request may ask for at most; less than none delays it."""

VOTE_MS_MAX: Final = 45_000
"""For how long a batch system may think about what a vote promises: less than a request may take."""

RULES_MAX: Final = 64
"""Limits, blackouts and head starts of one resource, each: owners name groups, not users."""

PREFERENCES_MAX: Final = 400
"""Preferred times of one request: every morning of a year, as the client spells them out."""

WEIGHT_MAX: Final = 1e9
"""The greatest weight of a preference, of either sign: what matters is how weights compare."""

UNITS_MAX: Final = 10_000_000
"""Units of one claim, and a resource's capacity: above the node count of any machine there is."""

DURATION_S_MAX: Final = 366 * 86_400
OFFSET_S_MAX: Final = 366 * 86_400
WINDOW_S_MAX: Final = 10 * 366 * 86_400
TIME_S_MAX: Final = 32_503_680_000
"""Year 3000: times beyond are mistakes (milliseconds given as seconds)."""

VIEW_STEPS_MAX: Final = 10_000
"""Steps of one free-capacity view: beyond it the view says up to where it is complete."""

LISTING_MAX: Final = 10_000
"""Slots or reservations in one listing answer."""

REFUSALS_MAX: Final = CLAIMS_MAX
"""Refusals in one message: at most one for each slot that was asked for."""

REFUSAL_CHARS_MAX: Final = 500
"""Length of one refusal's detail: a sentence with a reason and a few names and times."""

RULE_CHARS_MAX: Final = 200
"""The name of an owner's rule."""

EVENT_REFUSALS_MAX: Final = 16
"""Refusals kept with one event of a request's story: it is written down with each of its attempts."""

RESOURCES_MAX: Final = 10_000
"""Resources of one site: each is looked at by every request that goes by attributes."""

TEXT_MAX: Final = 1_000
"""A description, a rule in words, the value of an attribute: what people read at one glance."""

HOURS_TEXT_MAX: Final = 4_000
"""Opening hours in words; a site shortens longer ones."""

OWNER_WORD_MAX: Final = 200
"""What an owner says of a request: one line, that its user is told."""

APPROVAL_S_MAX: Final = 30 * 86_400
"""The longest that a request waits for the word of an owner, and holds what other owners have."""

RECALL_MS_MAX: Final = 600_000
"""The longest that a site may let a holder consider a recall; ours give a minute."""

HOLD_MS_MAX: Final = 24 * 3_600_000
"""A user's hold on the broker lives at most a day; the default is 15 minutes."""

PLACE_HOLD_MS_MAX: Final = 60_000
"""A place in a queue is held while a broker compares bids: others behind it count this time as taken."""

SOLICITED_MACHINES_MAX: Final = 8
"""Machines of one site in whose queues one job is held a place: each costs the site two facts."""

PLACE_PREFERENCES_MAX: Final = 32
"""Preferences of one job that is left to a broker: each is compared with every machine that it knows."""

IMPLEMENTATIONS_MAX: Final = 16
"""Implementations of one job that is left to a broker: all of them together are as long as one job may be."""

MEMBERS_MAX: Final = 1_000
"""Members of one virtual site, those of its members among them: as many names fit into a question."""

NESTED_MAX: Final = 4
"""Virtual sites on the way to a member: each adds a hop to all that is said."""

PLACE_HOMES_MAX: Final = 8
"""Sites that are always asked to bid for one job: they come on top of those that are chosen."""

PLACED_JOB_BYTES_MAX: Final = 64 * 1024
"""A job that is left to a broker goes to every site that is asked, with its script and environment."""

SCRIPT_BYTES_MAX: Final = 32 * 1024
"""An agent's source: the longest ready-made one is a tenth of it."""

ARGUMENTS_MAX: Final = 32
"""Values that a user gives an agent along."""

OFFERS_MAX: Final = 1_000
"""Slots that one visit of an agent chooses among: a week in steps of ten minutes."""

CHOICES_MAX: Final = 64
"""Slots that one visit of an agent holds at a site, whatever the owner's own limits."""

AGENT_MESSAGES_MAX: Final = 16
AGENT_MESSAGE_CHARS_MAX: Final = 4_096
"""Length of a message between an agent and its client: notes, not data."""

MARKS_MAX: Final = 8
"""Lives of a register's replicas that a site remembers: the newest."""

COMPARED_MAX: Final = 200
"""Reservations in one page of a comparison between a register and a site."""

RANKS_MAX: Final = 1_000_000
"""Ranks of one program: as many as the greatest machines have cores."""

SIZES_MAX: Final = 64
"""Sizes that one stage of a program can run on: from 1 to any number by doubling, and some between."""

STATE_BYTES_MAX: Final = 64 * 1024
"""What all ranks of a program have alike: it goes in one message, and whatever is large is an array."""

CONTROL_LINE_BYTES_MAX: Final = 64 * 1024
"""A line to or from a program that changes its size: one with thousands of cores is below."""

CORES_MAX: Final = 4_096
"""Cores that a program is told to run on: more than any one host has."""

JOBS_MAX: Final = 100_000
"""Jobs of one machine that have not ended; above the longest queue of any log in the archive."""

JOBS_REMEMBERED_MAX: Final = 100_000
"""Ended jobs whose keys and outcomes a queue remembers: for repeated calls, and jobs that wait for them."""

STEP_HOSTS_MAX: Final = 4_096
"""Hosts of one part of a job in step."""

STEP_ADDRESSES_MAX: Final = 100_000
"""Characters of the addresses of all parts: Linux has room for 128 KiB in one variable."""

STEP_PARTS_MAX: Final = 64
"""Parts of one job in step."""

STEP_AHEAD_MS_MAX: Final = 120_000
"""A start of a job in step is told so long ahead, at most."""

PARTS_WAIT_S_MAX: Final = 3_600
"""So long a part may wait for the others on its nodes, which nobody uses meanwhile."""

MACHINE_NAME_MAX: Final = 57
"""The name of its queue is longer, and still a name."""

JOB_INDICES_MAX: Final = 10_000
"""Jobs of one array: one call makes them all."""

JOBS_AT_ONCE_MAX: Final = 1_000
"""Jobs, or arrays of jobs, in one call."""
JOB_SCRIPT_BYTES_MAX: Final = 64 * 1024
"""A job's script: what is longer belongs into a file."""

JOB_ARGUMENTS_MAX: Final = 256
JOB_TEXT_MAX: Final = 4_096
"""One argument of a command, one path, one value of the environment."""

JOB_ENVIRONMENT_MAX: Final = 256
JOB_DEPENDENCIES_MAX: Final = 64
JOB_SIZES_MAX: Final = 64
JOB_SHAPE_MAX: Final = 6
"""Dimensions of a machine: a hypercube has the most, as one number each."""

PRICED_STARTS_MAX: Final = 10
"""Starts of a reservation that are priced in one call: each costs a prediction of all who wait."""
