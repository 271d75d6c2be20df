"""The logger "ray" of this process."""


def configure(level, text_format):
    """Sets up the logger; None leaves as it is what it stands for."""
    if level is None and text_format is None:
        return
    import logging  # 5 ms, which a program that does not ask for it need not pay

    logger = logging.getLogger("ray")
    if text_format is not None:
        formatter = logging.Formatter(text_format)
        if not logger.handlers:
            # Its own from now on, so the handlers of the root would say everything once more.
            logger.addHandler(logging.StreamHandler())
            logger.propagate = False
        for handler in logger.handlers:
            handler.setFormatter(formatter)
    if level is not None:
        logger.setLevel(level.upper() if isinstance(level, str) else level)
