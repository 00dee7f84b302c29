"""What documents say: their text, and the sections of it that can be cited, by kind of file."""
