"""The weights of a TensorFlow 1 graph as plain arrays, to be sent between processes."""

from ray.experimental._weights import parts_of


def _tensorflow():
    import tensorflow

    return tensorflow.compat.v1


class TensorFlowVariables:
    """Reads and writes the variables that an output of a graph depends on.

    Writing adds operations to the graph, so make this before the graph is finalized. Names tell
    variables apart: two networks that exchange weights by name need a graph each (`get_flat` and
    `set_flat` go by position, and do not).

    Attributes:
        sess: the session that runs the reads and writes.
        variables: the variables by name.
        placeholders: by name, what a new value is fed through.
        assignment_nodes: by name, the operation that takes it over.
    """

    def __init__(self, output, sess=None, input_variables=None):
        """
        Args:
            output: a tensor or operation, or a list of them, whose variables are wanted.
            sess: the session, if it is known yet (see set_session).
            input_variables: further variables to take in.
        """
        tf = _tensorflow()
        self.sess = sess
        needed = _variable_names(output if isinstance(output, (list, tuple)) else [output])
        wanted = [variable for variable in tf.global_variables() if variable.op.name in needed]
        self.variables = {
            variable.op.name: variable for variable in [*wanted, *(input_variables or ())]
        }
        self.placeholders, self.assignment_nodes = {}, {}
        for name, variable in self.variables.items():
            feed = tf.placeholder(
                variable.dtype.base_dtype,
                variable.get_shape().as_list(),
                name="Placeholder_" + name,
            )
            self.placeholders[name] = feed
            self.assignment_nodes[name] = variable.assign(feed)

    def set_session(self, sess):
        """Chooses the session that runs the reads and writes."""
        self.sess = sess

    def get_flat_size(self) -> int:
        """How many numbers all the variables have together."""
        return sum(_size(variable) for variable in self.variables.values())

    def get_flat(self):
        """All the weights as one flat array."""
        import numpy

        return numpy.concatenate([value.ravel() for value in self.get_weights().values()])

    def set_flat(self, new_weights):
        """Sets all the weights from one flat array, which must have get_flat_size() numbers."""
        shapes = {name: variable.get_shape().as_list() for name, variable in self.variables.items()}
        self._assign(parts_of(new_weights, shapes))

    def get_weights(self) -> dict:
        """The weights, an array a variable, by name."""
        return self._session().run(self.variables)

    def set_weights(self, new_weights: dict):
        """Sets the weights of the variables named; names that this network does not have are left
        out.
        """
        values = {name: value for name, value in new_weights.items() if name in self.variables}
        if not values:
            raise ValueError(
                f"the network has {', '.join(self.variables)} and none of "
                f"{', '.join(new_weights)}. If both come from the same code, they share a graph, "
                "which numbers their names: define each one in its own tf.Graph()."
            )
        self._assign(values)

    def _assign(self, values):
        feed = {self.placeholders[name]: value for name, value in values.items()}
        self._session().run([self.assignment_nodes[name] for name in values], feed_dict=feed)

    def _session(self):
        if self.sess is None:
            raise ValueError(
                "no session to run this in: pass one to TensorFlowVariables or to set_session"
            )
        return self.sess


def _variable_names(outputs):
    """The names of the variables that any of these depends on, by data or by control."""
    found, seen = set(), set()
    waiting = [getattr(output, "op", output) for output in outputs]
    while waiting:
        operation = waiting.pop()
        if operation.name in seen:  # control edges may form circles
            continue
        seen.add(operation.name)
        if operation.type in ("Variable", "VariableV2", "VarHandleOp"):
            found.add(operation.name)
        waiting += [tensor.op for tensor in operation.inputs]
        waiting += operation.control_inputs
    return found


def _size(variable):
    size = 1
    for length in variable.get_shape().as_list():
        size *= length
    return size
