"""What owners take back: who has to go, who may stay, and where those are who went."""
