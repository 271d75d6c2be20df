"""Nothing scales a node: ray.autoscaler.sdk keeps what was asked for."""
