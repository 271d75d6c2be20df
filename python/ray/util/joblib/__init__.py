"""joblib's Parallel on actors: `ray.util.joblib.register_ray`."""

__all__ = ["register_ray"]


def register_ray() -> None:
    """Makes "ray" a backend of joblib, for scikit-learn and whatever else uses joblib.

        import joblib
        from ray.util.joblib import register_ray

        register_ray()
        with joblib.parallel_config(backend="ray", n_jobs=-1):
            print(joblib.Parallel()(joblib.delayed(abs)(x) for x in (-1, 2)))  # [1, 2]

    n_jobs=-1 stands for all CPUs of the system. Options of the processes, as an actor's, can be
    given too: parallel_config("ray", ray_remote_args={"num_cpus": 2}).
    """
    try:
        from joblib import register_parallel_backend
    except ImportError:
        raise ImportError("register_ray needs joblib: pip install joblib") from None
    from ray.util.joblib.ray_backend import RayBackend

    register_parallel_backend("ray", RayBackend)
