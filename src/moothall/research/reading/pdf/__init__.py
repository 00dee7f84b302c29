"""Read PDF: a page is words and rules, each with its place, from which lines and tables come."""
