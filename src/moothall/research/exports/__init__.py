"""A report in other forms: a Word document, lists of its sources, Markdown that is safe."""
