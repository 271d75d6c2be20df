"""The methods that every actor has, whatever its class."""


def ready(self) -> bool:
    """True, once its constructor has run."""
    return True


def call(self, function, /, *args, **kwargs):
    """What a function of the caller's makes of the instance."""
    return function(self, *args, **kwargs)


def terminate(self):
    """Ends the actor; the calls that came before have run."""
    raise SystemExit(0)


METHODS = {"__ray_call__": call, "__ray_ready__": ready, "__ray_terminate__": terminate}


def give_to(target: type):
    """In a worker: adds them to the class of its actor."""
    try:
        for name, function in METHODS.items():
            setattr(target, name, function)
    except TypeError:  # a class that is built in
        pass
