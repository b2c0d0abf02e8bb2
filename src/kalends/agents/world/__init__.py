"""The agent's world: what a script is shown of a site, and how its answer is checked. No I/O.

`visible_calendar` is one resource as one user may see it; `offers` numbers the slots that could be held
there, and chooses if no script does; `views` makes plain data of both; `answers` turns what a script
returns into slots, or refuses it.
"""
