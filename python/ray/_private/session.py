"""What one process knows about the session it takes part in.

`epoch` counts the sessions of this process: whatever is kept from one session (an exported
function, say) is kept with its epoch, and is worth nothing in the next.
"""

SCRIPT_MODE, WORKER_MODE, LOCAL_MODE = 0, 1, 2

epoch = 0
pid = None  # of the process that takes part; a child that it forks does not
mode = None  # SCRIPT_MODE in a driver, WORKER_MODE in a worker
namespace = ""
