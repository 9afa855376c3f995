"""Developer tools that run from a checkout: mutation testing, generators of committed tables, upstream
coverage. No wheel contains them.
"""
