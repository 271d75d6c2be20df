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
    """In a worker: adds those that it has not to the class of its actor."""
    for name, function in METHODS.items():
        if not hasattr(target, name):
            try:
                type.__setattr__(target, name, function)  # past what its metaclass may say to that
            except TypeError:  # a class that is built in
                return
