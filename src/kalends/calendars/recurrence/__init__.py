"""Windows that recur on local clocks: rules, their expansion, and whether two ever clash."""
