def write(path, document):  # type: ignore
    path.write_text("")
