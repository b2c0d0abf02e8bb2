"""Code that all commands share for talking to the user: options, answers, errors, the terminal."""
