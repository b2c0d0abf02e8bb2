"""The queue of one machine as a pure state machine: facts in, starts and kills out."""
