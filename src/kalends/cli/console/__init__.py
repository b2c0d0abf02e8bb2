"""What lies between every command and whoever called it: options, answers, errors, the terminal."""
