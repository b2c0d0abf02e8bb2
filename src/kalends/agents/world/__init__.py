"""The agent's world: what a script is shown of a site, and how its answer is checked. No I/O.

`shown` is one resource as one user may see it; `offers` numbers the slots that could be held there;
`views` makes plain data of both; `answers` turns what a script says into slots, or refuses it;
`default` chooses where no script does.
"""
