"""Limits on everything that comes from outside, each with its reason."""

from __future__ import annotations

from typing import Final

BODY_BYTES_MAX: Final = 256 * 1024
"""An HTTP body: a request with the most terms and text allowed is below 100 KiB."""

VALUES_MAX: Final = 32_768
"""Values in one body, without the names of fields: bounds its time. Ten thousand names of nodes fit in."""

MAPS_AND_LISTS_MAX: Final = 8_192
"""Maps and lists among those values, which cost most: a request with all preferences has a thousand."""

FRAME_BYTES_MAX: Final = 4 * 1024 * 1024
"""A session frame: a thousand messages in flight of a few hundred bytes, and a large view."""

FRAME_MESSAGES_MAX: Final = 2_000
"""Messages in one frame: bounds the time that one frame keeps the event loop."""

TOKEN_CHARACTERS_MAX: Final = 8_000
"""Limit of one header field in the HTTP parser; 64 long group names stay below it."""

REQUEST_TEXT_MAX: Final = 4_096
"""Characters of a request's text form; people type far less, generators can use the Python form."""

ALTERNATIVES_MAX: Final = 32
TERMS_MAX: Final = 32
"""Terms in one alternative: each becomes at least one claim to commit together."""

TERMS_OF_ALL_MAX: Final = 128
"""Terms of all alternatives of one request together: each is matched with all resources."""

NEEDS_MAX: Final = 2 * TERMS_OF_ALL_MAX
"""Needs of one request: terms of one resource that overlap make up to twice as many pieces."""

SELECTED_MAX: Final = 256
"""The N of one ``N of {attributes}`` term."""

CLAIMS_MAX: Final = 512
"""Claims of one request over all sites: bounds the decision record and every message about it."""

ATTRIBUTES_MAX: Final = 64
COMPARISONS_MAX: Final = 256
"""Different comparisons of one request: each is evaluated for all resources."""

PRIORITY_MAX: Final = 100
"""Maximum minutes of head start that a request may ask for; a negative one delays it."""

VOTE_MS_MAX: Final = 45_000
"""Maximum time for a batch system to confirm a vote: less than the time of a request."""

RULES_MAX: Final = 64
"""Limits, blackouts and head starts of one resource, each: owners name groups, not users."""

PREFERENCES_MAX: Final = 400
"""Preferred times of one request: every morning of a year, as the client spells them out."""

WINDOWS_MAX: Final = 64
"""Different windows, and preferred ones, of all terms and alternatives of one request together."""

OCCURRENCES_MAX: Final = 4_096
"""Occurrences of these windows from the earliest start to the latest end: each costs a broker some 25 us."""

SERIES_MAX: Final = 200
"""Occurrences of a series: a weekly one of almost four years, or every working day of most of one."""

BRACKETS_DEEP_MAX: Final = 16
"""Brackets within brackets in the text of a request: people need two or three."""

WEIGHT_MAX: Final = 1e9
"""The greatest weight of a preference, of either sign: only the ratio of weights matters."""

UNITS_MAX: Final = 10_000_000
"""Units of one claim, and a resource's capacity: above the node count of any machine there is."""

DURATION_S_MAX: Final = 366 * 86_400
REMIND_S_MAX: Final = 30 * 86_400
"""A reminder comes at most this long before its reservation: earlier ones are forgotten again."""
JUST_NOW_S: Final = 60
"""A search takes no start that is longer ago: a request may take so long from its user to its plan."""
COMPANIONS_MAX: Final = 8
"""Resources that always come with one: a camera has a table, a lens and a key."""
BUFFER_S_MAX: Final = 7 * 86_400
"""Time before and after a booking that an owner keeps free: a week dries a floor, or ships a thing."""
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
"""Refusals stored with one event of a request: each attempt stores an event."""

RESOURCES_MAX: Final = 10_000
"""Resources of one site: a request by attributes examines them all."""

TEXT_MAX: Final = 1_000
"""Length of a description, a rule in words, or the value of an attribute, which people read at a glance."""

HOURS_TEXT_MAX: Final = 4_000
"""Opening hours in words; a site shortens longer ones."""

RESOURCES_CLOSED_MAX: Final = 1_000
"""Resources in one closure: each is a reclaim, of which a site has as many."""

OWNER_WORD_MAX: Final = 200
"""Length of an owner's comment on a request: one line, sent to its user."""

APPROVAL_S_MAX: Final = 30 * 86_400
"""Maximum wait for an owner's decision, while the request holds slots of other owners."""

RECALL_MS_MAX: Final = 600_000
"""Maximum time that a site may give a holder to answer a recall; ours give a minute."""

HOLD_MS_MAX: Final = 24 * 3_600_000
"""A user's hold on the broker lives at most a day; the default is 15 minutes."""

PLACE_HOLD_MS_MAX: Final = 60_000
"""How long a place in a queue is held while a broker compares bids; jobs behind it must wait for it."""

SOLICITED_MACHINES_MAX: Final = 8
"""Machines of one site that hold a place for one job: each costs the site two facts."""

PLACE_PREFERENCES_MAX: Final = 32
"""Preferences of a job that a broker places: each is compared with every machine that the broker knows."""

PLACE_DATA_MAX: Final = 16
"""Sites with input of a job that a broker places."""

WAYS_MAX: Final = 8
"""Ways to run a job that the queue of one machine compares: each costs it a plan."""

IMPLEMENTATIONS_MAX: Final = 16
"""Implementations of a job that a broker places: together they may be as long as one job."""

MEMBERS_MAX: Final = 1_000
"""Members of one virtual site, with the members of its members: as many names fit into a question."""

SPLITS_MAX: Final = 8
"""Splits of a job over members of a virtual site: each is an alternative of its request."""

SPLIT_MACHINES_MAX: Final = 1_000
"""Machines over which a job is split, those with the most nodes."""

NESTED_MAX: Final = 4
"""Virtual sites on the way to a member: each adds a hop to every message."""

PLACE_HOMES_MAX: Final = 8
"""Sites that are always asked to bid for one job, in addition to the chosen ones."""

PLACED_JOB_BYTES_MAX: Final = 64 * 1024
"""Size of a job that a broker places: every site that is asked gets it, with script and environment."""

SCRIPT_BYTES_MAX: Final = 32 * 1024
"""Size of an agent's source: ten times the longest ready-made one."""

ARGUMENTS_MAX: Final = 32
"""Arguments that a user gives to an agent."""

OFFERS_MAX: Final = 1_000
"""Slots offered to one visit of an agent: a week in steps of ten minutes."""

CHOICES_MAX: Final = 64
"""Slots that one visit of an agent holds at a site, whatever the owner's own limits."""

AGENT_MESSAGES_MAX: Final = 16
AGENT_MESSAGE_CHARS_MAX: Final = 4_096
"""Length of a message between an agent and its client: notes, not data."""

MARKS_MAX: Final = 8
"""Lives of a register's replicas that a site remembers: the newest ones."""

COMPARED_MAX: Final = 200
"""Reservations in one page of a comparison between a register and a site."""

RANKS_MAX: Final = 1_000_000
"""Ranks of one program: as many as the greatest machines have cores."""

SIZES_MAX: Final = 64
"""Sizes that one stage of a program can run on: from 1 to any number by doubling, and some between."""

STATE_BYTES_MAX: Final = 64 * 1024
"""Size of values that all ranks of a program share: sent in one message; large data belong into arrays."""

CONTROL_LINE_BYTES_MAX: Final = 64 * 1024
"""Length of a line to or from a program that changes its size; thousands of cores fit."""

CORES_MAX: Final = 4_096
"""Cores given to a program on one host: more than any host has."""

JOBS_MAX: Final = 100_000
"""Jobs of one machine that have not ended; above the longest queue of any log in the archive."""

JOBS_REMEMBERED_MAX: Final = 100_000
"""Ended jobs whose keys and outcomes a queue remembers, for repeated calls and for dependent jobs."""

STEP_HOSTS_MAX: Final = 4_096
"""Hosts of one part of a job in step."""

STEP_ADDRESSES_MAX: Final = 100_000
"""Characters of the addresses of all parts: Linux has room for 128 KiB in one variable."""

STEP_PARTS_MAX: Final = 64
"""Parts of one job in step."""

STEP_AHEAD_MS_MAX: Final = 120_000
"""Maximum time between the announcement of a start of a job in step and that start."""

PARTS_WAIT_S_MAX: Final = 3_600
"""Maximum wait of a part for the others, while its nodes are idle."""

HOST_NAME_MAX: Final = 253
"""The longest name in the DNS (RFC 1035)."""

MACHINE_NAME_MAX: Final = 57
"""Length of a machine's name: the name of its queue, which is longer, must still be valid."""

JOB_INDICES_MAX: Final = 10_000
"""Jobs of one array: one call makes them all."""

JOBS_AT_ONCE_MAX: Final = 1_000
"""Jobs, or arrays of jobs, in one call."""
JOB_SCRIPT_BYTES_MAX: Final = 64 * 1024
"""Size of a job's script: longer ones belong into a file."""

JOB_ARGUMENTS_MAX: Final = 256
JOB_TEXT_MAX: Final = 4_096
"""One argument of a command, one path, one value of the environment."""

JOB_ENVIRONMENT_MAX: Final = 256
JOB_DEPENDENCIES_MAX: Final = 64
JOB_SIZES_MAX: Final = 64
JOB_SHAPE_MAX: Final = 6
"""Dimensions of a machine: a hypercube has the most."""

PRICED_STARTS_MAX: Final = 10
"""Starts of a reservation that are priced in one call: each costs a prediction of all waiting jobs."""
