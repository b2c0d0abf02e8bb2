"""The book of a site: who holds, has been promised or has locked which slots, by a table of transitions."""
