"""The tools that read the web: pages, PDF documents, what search engines find."""
