def main(event, context):
    """Greets: the handler that one tries the server with."""
    return "hello"
