"""Users' scripts that choose slots next to the calendars: the language, the sandbox, the agent's world.

`kalends.agents.language` says what a script may be, `kalends.agents.sandbox` runs it where it can do
no harm, `kalends.agents.world` is what it sees and how its answer is checked, `kalends.agents.ready`
are scripts to use and to learn from.
"""
