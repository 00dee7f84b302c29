"""Read documents by kind of file: their text, and the sections of it that can be cited."""
