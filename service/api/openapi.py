def documents():
    return {}
