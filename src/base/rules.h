/* A line a rule, sorted by room: see rule.h. No include guard: it is read more than once. */

/* link */
BASE_RULE_LINE(
    LINK_ENDS_OLD_FIRST,
    "bytes still in the old connection are read after the peer was told, on the new one, "
    "how far this side has read")
BASE_RULE_LINE(LINK_LOWER_DIAL_WINS,
               "two dials cross, each side takes the other's and ends its own, again and again")
BASE_RULE_LINE(LINK_DIAL_CLAIMS_LATE,
               "the lower side's dials never come up, and it refuses those of the other one")
BASE_RULE_LINE(
    LINK_NEWEST_TURN,
    "a hello of a dial that was given up is read after a newer one, and asks for messages "
    "that were acknowledged since")
BASE_RULE_LINE(LINK_RESENDS, "messages were written to a connection that broke before they came")
BASE_RULE_LINE(LINK_GREETING_ACKNOWLEDGES,
               "an acknowledgement is lost with its connection, and nothing more is to be "
               "acknowledged")
BASE_RULE_LINE(LINK_ANSWERS_EXEMPT,
               "two links are full of requests, and neither node can answer the other's")
BASE_RULE_LINE(LINK_BOUNDED, "a peer is stopped, and messages for it pile up")
BASE_RULE_LINE(LINK_CREDIT_WHEN_PROCESSED,
               "a node receives faster than it deals with what it received, and its memory fills")
BASE_RULE_LINE(LINK_ACK_BY_TIME,
               "the last messages of a burst are too few to be acknowledged, and are kept for ever")
BASE_RULE_LINE(LINK_ANY_BYTE_COUNTS,
               "a large message takes longer than the time of silence, and no heartbeat fits in "
               "between")
BASE_RULE_LINE(
    LINK_LATE_COUNTS_AGAIN,
    "a node was stopped, and holds its peers for silent before it has read what they sent")
BASE_RULE_LINE(LINK_BEATS, "two nodes have nothing to say to each other")
BASE_RULE_LINE(LINK_BEATS_WHEN_BUSY,
               "a peer always has something to say, and never how old its last renewal is")
BASE_RULE_LINE(LINK_SILENT_REDIALS,
               "a connection is dead, and neither side is ever told that it ended")
BASE_RULE_LINE(LINK_GREETING_ENDS, "a hello is swallowed by a connection that is never told to end")
BASE_RULE_LINE(LINK_PAUSE_GROWS, "a peer is gone for good, and is dialled without a pause")
BASE_RULE_LINE(
    LINK_RIGHT_INCARNATION,
    "a daemon starts again at the same address, and is sent what was for its predecessor")
BASE_RULE_LINE(LINK_CLOSED_HEARS_NOTHING,
               "a node that was stopped and buried goes on, and its messages still come")

/* member */
BASE_RULE_LINE(MEMBER_TERM_FROM_SENDING,
               "a node is stopped between the running of its renewal and the reading of the "
               "answer: its term would outlast its lease")
BASE_RULE_LINE(
    MEMBER_BURY_AS_LOOKED,
    "the leader is stopped between its look and its write, and the node renews in between")
BASE_RULE_LINE(MEMBER_FENCE_CHECKED,
               "a leader that was stopped buries by what it saw, while another leads")
BASE_RULE_LINE(
    MEMBER_FENCE_BY_TIME,
    "a fail-over loses a fencing number that was given out, and another leader gets the same")
BASE_RULE_LINE(
    MEMBER_FENCE_RISES,
    "a node hears of a new leader, then of an old one from a state that lost the new one")
BASE_RULE_LINE(MEMBER_FENCE_RAISED, "a fail-over loses a fencing number that nodes know: the next "
                                    "leader would be refused by them for ever")
BASE_RULE_LINE(MEMBER_LEADER_RENEWS,
               "the leader itself is condemned: it keeps its lead, and may decide nothing")
BASE_RULE_LINE(MEMBER_PARDON,
               "all others die while a node is condemned: nobody is left who could bury anybody")
BASE_RULE_LINE(MEMBER_REIGN, "a leader that hears nothing goes on leading while another does")
BASE_RULE_LINE(
    MEMBER_TWO_LEASES,
    "a fail-over, and the first that leads settles the state before all have said their facts")
BASE_RULE_LINE(
    MEMBER_ERA_IS_GAP,
    "a fail-over: the leader has had two leases of answers, from the state before, and settles "
    "the new one at once")
BASE_RULE_LINE(MEMBER_BURY_HALF,
               "half of the nodes lose Redis and go on by their witnesses, the others have it")
BASE_RULE_LINE(MEMBER_WITNESS_TWO_LEASES, "a witness renews for the first time after a cut, and "
                                          "its word of before still counts at the node")
BASE_RULE_LINE(MEMBER_WITNESS_ANSWERED,
               "a witness's renewals run, but it hears no answer and says so")
BASE_RULE_LINE(
    MEMBER_WITNESS_PAUSED,
    "a witness that is dead in Redis still runs, paused, and says truly that it has not renewed")
BASE_RULE_LINE(MEMBER_WITNESS_RENEWED,
               "a node loses Redis alone, and hears its witnesses, who have it")
BASE_RULE_LINE(MEMBER_WITNESS_LISTS,
               "a fail-over takes a node's record back to a renewal with other witnesses")
BASE_RULE_LINE(MEMBER_PULSE_ECHO,
               "a heartbeat is held up on its way and comes when its sender has long renewed")
BASE_RULE_LINE(MEMBER_ALONE_LIMIT,
               "a group without Redis goes on for ever, and is buried after 90 s")
BASE_RULE_LINE(MEMBER_RESUME_SETTLED,
               "a fail-over loses a tombstone that others have heard; its node renews and goes on")
BASE_RULE_LINE(
    MEMBER_ERA_ABOVE,
    "a fail-over loses the beginning of an era: whoever knows it would refuse all answers")
BASE_RULE_LINE(MEMBER_SETTLE_ALL_SAID,
               "the state is declared settled while a node has not said its facts")
BASE_RULE_LINE(MEMBER_SAY_STONES,
               "a fail-over loses a tombstone that some have heard: the others would never")
BASE_RULE_LINE(
    MEMBER_SAY_OTHERS,
    "Redis loses everything while a node is cut off from it: it is forgotten, and K passes it by")
BASE_RULE_LINE(MEMBER_STRUCK_DEAD,
               "a node dies before it has closed a death: those that it wrote to do not know yet")
BASE_RULE_LINE(MEMBER_STRUCK_SETTLED, "K is computed from a state that lost a member")
BASE_RULE_LINE(MEMBER_LEAVE_PAUSES,
               "a node leaves, and a worker that was forgotten begins a call after its tombstone")
BASE_RULE_LINE(MEMBER_LEAVE_RELEASES,
               "the leader leaves: another leads when its tombstone is written, before it has read "
               "the answer")
BASE_RULE_LINE(
    MEMBER_OWN_SETTLED,
    "a fail-over loses a tombstone that others have heard, and a node leaves before they "
    "have said it again: it can't be said any more")
BASE_RULE_LINE(MEMBER_CONDEMN_ONE, "two nodes complain of each other, and both are condemned")

/* refs */
BASE_RULE_LINE(REFS_SENDING_ADDS,
               "the home sends X to C and lets go of it; the frame is on its way")
BASE_RULE_LINE(REFS_OLD_DROP, "C drops X while the home's next frame with X is on its way to C")
BASE_RULE_LINE(REFS_GIVER_KEEPS, "B gives X to C and drops it; B's DROP comes before C's HOLD")
BASE_RULE_LINE(REFS_CONFIRM_ANSWERED,
               "C tells B before the home has answered; B's DROP comes before C's HOLD")
BASE_RULE_LINE(REFS_CONTAINER_KEPT,
               "C drops a container before the HOLDs on its contents are answered")
BASE_RULE_LINE(REFS_LIST_GIVES,
               "C asks for a container's references, and its DROP comes before it sees the list")
BASE_RULE_LINE(REFS_CACHES_COUNT, "the home frees a function that C has loaded, and uses again")
BASE_RULE_LINE(REFS_FORGET_LATER, "FORGET comes to C while it uses the function once more")
BASE_RULE_LINE(REFS_STRIKE_AT_K, "B gave X to C and died; the home hears of it before C's HOLD")
BASE_RULE_LINE(REFS_CLOSE_ANSWERED,
               "C closes the tombstone of B, who gave it X, before its HOLD is answered")
BASE_RULE_LINE(REFS_CLOSE_IN_ORDER, "a later tombstone is closed while an earlier one is open")
BASE_RULE_LINE(REFS_DEAD_IN_TURN,
               "B gave X to C and died, C to D and died; C had not closed B's tombstone")
BASE_RULE_LINE(REFS_DEAD_UNCONFIRMED,
               "B gave X to C; C gave it to D and died before its HOLD was heard")
BASE_RULE_LINE(REFS_TOMBSTONE_ANSWERS,
               "a home dies that was asked to hold; B, who gave, is dead too")

/* place */
BASE_RULE_LINE(PLACE_BLOCKED_LENDS,
               "c tasks of A at B wait for tasks which fit only B, and hold all credits")
BASE_RULE_LINE(PLACE_PROMISE_LAPSES,
               "A's tasks at B are blocked; what they wait for needs the CPU that B keeps for A")
BASE_RULE_LINE(PLACE_SENT_IS_BEGUN,
               "B dies with a task that had begun; sent again without a retry, it runs too often")
BASE_RULE_LINE(PLACE_DEAD_NOT_SILENT,
               "B is cut off and runs on; what was sent to it is run again elsewhere")
BASE_RULE_LINE(PLACE_SILENT_NO_WORK,
               "tasks go to a node that nobody hears, and wait for its tombstone")
BASE_RULE_LINE(PLACE_BEGUN_STAYS,
               "a worker of B takes a task while B gives it back: it runs at two nodes")
BASE_RULE_LINE(PLACE_CANCEL_IS_KEPT,
               "a cancelled task comes back for another reason, and is begun again")
BASE_RULE_LINE(PLACE_RUN_IS_KNOWN,
               "a job ends, its record is another task's, and the late DONE ends that one")
BASE_RULE_LINE(PLACE_JOB_END_KEPT,
               "B hears of a job's end, then comes a lease of it from an origin that has not heard")
BASE_RULE_LINE(PLACE_REFUSED_IS_COUNTED,
               "a frame is refused, and nobody gives back the references that it names")
BASE_RULE_LINE(PLACE_PAUSED_HOLDS,
               "B is buried while it is stopped, goes on, and begins what its origin has given up")
BASE_RULE_LINE(PLACE_REFUSED_IS_SAID,
               "B refuses for a reason that its sums do not show: the leader names it for ever")
BASE_RULE_LINE(PLACE_VIEWS_ANEW, "a new leader knows no node, for none has changed")
BASE_RULE_LINE(PLACE_ASKED_ANEW, "a question went to a leader that leads no more")
BASE_RULE_LINE(PLACE_EARLY_IS_PROBED,
               "a node hears of the new leader, and asks it, before that one knows that it leads")
BASE_RULE_LINE(PLACE_UNUSED_IS_PROBED,
               "an origin does not use a grant; the leader takes the node for full for ever")
BASE_RULE_LINE(PLACE_STARVING_QUEUES,
               "a node's own tasks take each CPU that comes free, so it is never seen free")
BASE_RULE_LINE(PLACE_PATIENCE_ENDS,
               "a task waits at a node that became full, while another one is free")
BASE_RULE_LINE(PLACE_BACK_IS_LONG,
               "short tasks behind a long one go back, and are sent ahead to it again")
BASE_RULE_LINE(PLACE_PATIENCE_DOUBLES, "full nodes throw a task to each other without end")

/* pull */
BASE_RULE_LINE(PULL_ONE_RECEIVER,
               "everybody reads from the primary, whose link they share: as many times one copy's "
               "time as there are receivers")
BASE_RULE_LINE(PULL_NO_DESCENDANT,
               "A lost its source, asks again and is sent to B, which reads from A: both wait")
BASE_RULE_LINE(PULL_BIRTH,
               "A is told to read from B; B gives its copy up, wants it anew and is sent to A, "
               "which has bytes; A's first fetch comes to the new copy: both wait")
BASE_RULE_LINE(PULL_STALE_EXCEEDED,
               "a receiver is stopped while it reads from the only copy: all others wait for it")
BASE_RULE_LINE(PULL_LAME_EXCEEDED,
               "a receiver can't reach the only complete copy and is sent there every second: "
               "nobody else ever is")
BASE_RULE_LINE(PULL_STALL_COMPLAINED, "a source is stopped: its reader waits for it")
BASE_RULE_LINE(PULL_VERSION,
               "a source dies, the object is made again with other bytes, and its reader goes on "
               "with the chunks of the first run")
BASE_RULE_LINE(PULL_LET_GO,
               "a pull is cancelled, its memory is another copy's, and a late chunk is written")
BASE_RULE_LINE(PULL_SOURCE_PINNED,
               "a source evicts its copy while the bulk thread sends it: a reader gets the bytes "
               "that are there next")
BASE_RULE_LINE(PULL_ACK_AFTER_HOLDS,
               "the source lets go of a container before its receiver holds what is in it")
BASE_RULE_LINE(PULL_GAVE_UP_TOLD,
               "a copy is evicted, and its home sends receivers there as long as it lives")
BASE_RULE_LINE(PULL_DEATH_FREES,
               "a node dies, and the home goes on to name its copy, and keeps its place")
BASE_RULE_LINE(PULL_KEPT_ANSWERED,
               "the home makes a copy the primary that its node is evicting: there is none")
BASE_RULE_LINE(PULL_COPIES_OUTLIVE, "a home dies, and a complete copy elsewhere is not found")
BASE_RULE_LINE(PULL_SAID_AGAIN,
               "Redis fails over without the last copies, the home dies: they are not found")
BASE_RULE_LINE(PULL_ALL_OR_NONE, "two gets hold half of the memory each, and wait for the other's")
BASE_RULE_LINE(PULL_SEALED_FIRST,
               "a get holds memory for one object while its other one is made by a task that needs "
               "that memory for its arguments")
BASE_RULE_LINE(PULL_LOST_RETREATS,
               "an object is lost after a get was let in: the task that makes it again needs the "
               "memory that the get holds for it")
BASE_RULE_LINE(PULL_OLDEST_FIRST, "small young wants take what the old large one waits for")
BASE_RULE_LINE(PULL_GETS_FIRST, "arguments of new tasks take what a running task's get waits for")
BASE_RULE_LINE(PULL_CANT_FIT, "a set that is larger than the memory waits for ever")
BASE_RULE_LINE(PULL_TASK_GOES_BACK, "a task waits for room here while its origin has some")

/* actor */
BASE_RULE_LINE(ACTOR_SENT_IS_BEGUN,
               "a call runs, its node dies before the answer, the call is sent to the next "
               "epoch: it runs twice")
BASE_RULE_LINE(ACTOR_TOMBSTONE,
               "the node of an actor is only silent; another one is made elsewhere; both run "
               "calls")
BASE_RULE_LINE(ACTOR_PAUSE_CALLS,
               "a stopped node is buried, goes on, and begins a call while the next epoch runs "
               "elsewhere")
BASE_RULE_LINE(ACTOR_PAUSE_CREATION,
               "a node that is buried and does not know it begins an epoch after the next one")
BASE_RULE_LINE(ACTOR_DRAIN,
               "call 1 is on its way back from epoch e when call 2 is sent in e+1; call 1 "
               "follows it")
BASE_RULE_LINE(ACTOR_REQUEUE_ORDER, "calls 1 and 2 come back, call 1 is put behind call 2")
BASE_RULE_LINE(ACTOR_BOUNCE,
               "call 1 came back from e, call 2 of e comes late to the node and runs there in "
               "e+1 before it")
BASE_RULE_LINE(ACTOR_CANCEL_STANDS,
               "a call is cancelled while it is on its way back, and is sent in the next epoch")
BASE_RULE_LINE(ACTOR_CALLERS_APART, "a call waits for what a later call of another caller gives")
BASE_RULE_LINE(ACTOR_TOLD_ALIVE,
               "a stub is told of an epoch before its constructor has ended, and its calls "
               "come back")
BASE_RULE_LINE(ACTOR_HOME_DEATH, "the home dies, its actor runs on elsewhere for nobody")
BASE_RULE_LINE(ACTOR_CREATE_ONCE,
               "an epoch ends, a new leader asks for its creation again: it is made twice")
BASE_RULE_LINE(ACTOR_REFUSAL_KEPT,
               "a node refuses an epoch, a new leader asks again and it is made; the old one "
               "moves on")
BASE_RULE_LINE(ACTOR_BEGIN_CONFIRM,
               "a creation of an old leader comes after the epoch has moved on and was "
               "forgotten")
BASE_RULE_LINE(ACTOR_END_KEPT,
               "a fail-over takes back that an epoch had begun and ended; the next leader asks "
               "for it again")
BASE_RULE_LINE(ACTOR_EPOCH_COMPARE, "two leaders move the same epoch on, each to a node of its own")
BASE_RULE_LINE(ACTOR_TAKE_COMPARE,
               "a home takes a name and is buried before it is answered; told the epoch of now, "
               "which a leader has made elsewhere, it moves that one on")
BASE_RULE_LINE(ACTOR_EPOCH_TIME,
               "a fail-over loses an epoch that has run, and the next one gets the same number")
BASE_RULE_LINE(ACTOR_SETTLED,
               "a fail-over loses who has a name, another one takes it before the owner has "
               "said so again")
BASE_RULE_LINE(ACTOR_OLD_ANSWER,
               "an old master's answer comes after the facts were said to the new one, which "
               "lacks the write")
BASE_RULE_LINE(ACTOR_SAY_AGAIN, "a fail-over loses who has a name, and nobody says it again")
BASE_RULE_LINE(ACTOR_NAME_COMPARE,
               "an end is asked for twice, between the two another actor takes the name")
BASE_RULE_LINE(ACTOR_NAME_NEWER,
               "a fail-over loses an end and that another actor took the name since; the new owner "
               "says so before the end is said again")
BASE_RULE_LINE(ACTOR_KILL_KEPT,
               "a kill of a detached actor is confirmed, its home dies, and the actor lives on")

/* group */
BASE_RULE_LINE(
    GROUP_DECIDE_FIRST,
    "a COMMIT is sent before the decision is written, and a node in doubt writes ABORTED")
BASE_RULE_LINE(GROUP_FIRST_WINS, "a slow leader commits what a node in doubt has aborted")
BASE_RULE_LINE(GROUP_DOUBT_ASKS,
               "a node gives back by its clock what was committed while it was stopped")
BASE_RULE_LINE(GROUP_FENCE_SCRIPT,
               "an old leader commits a group after the new one has read that it waits")
BASE_RULE_LINE(GROUP_FENCE_NODE, "an old leader's news come after those of the new one")
BASE_RULE_LINE(GROUP_TELL_NEWEST,
               "a removal is told to an old leader, after the new one has read the group's record")
BASE_RULE_LINE(GROUP_UNSETTLED,
               "a new master decides what the lost one had decided, before it was told")
BASE_RULE_LINE(GROUP_OLD_ANSWER,
               "an answer of the lost master comes after this node's facts were said")
BASE_RULE_LINE(GROUP_COMMIT_OF_MASTER,
               "a COMMIT of the lost master comes after another node was told ABORTED")
BASE_RULE_LINE(GROUP_HALF_SAID,
               "of two nodes one was told COMMITTED before the master that knew was lost")
BASE_RULE_LINE(GROUP_LATE_PLACE,
               "the other is told so after the next leader has read that its bundle has no place")
BASE_RULE_LINE(GROUP_SAY_GROUPS, "a master loses that a group was made")
BASE_RULE_LINE(GROUP_SAY_HELD, "a master loses that a group was committed")
BASE_RULE_LINE(GROUP_SAID_HOLDERS,
               "a node holds bundles of a group whose home died with a master, before it said so")
BASE_RULE_LINE(GROUP_SAY_REMOVED, "a master loses that a group was removed")
BASE_RULE_LINE(GROUP_HEARD_REMOVED,
               "a master loses a removal, and who asked for it dies after others were told")
BASE_RULE_LINE(GROUP_ENDED_BY_MASTER,
               "a removal is heard of after a new master was told that the group is there")
BASE_RULE_LINE(GROUP_SAY_ABORTED, "a master loses that a node in doubt has written ABORTED")
BASE_RULE_LINE(GROUP_SAY_ENDED, "a master loses that a job has ended")
BASE_RULE_LINE(GROUP_SAY_LATE,
               "facts for a lost master are asked again until a newer one hears them")
BASE_RULE_LINE(GROUP_READY_HELD,
               "READY is said while a node is still in doubt, and the decision is lost")
BASE_RULE_LINE(GROUP_READY_OF_DEAD, "READY was on its way when a node of the group died")
BASE_RULE_LINE(GROUP_WAS_READY,
               "READY was told, and the master that knew is lost, and the node that held is dead")
BASE_RULE_LINE(GROUP_SCAN_AT_DEATH,
               "a node dies after it made or removed a group and before it has told the leader")
BASE_RULE_LINE(GROUP_SCAN_LATER,
               "a dead node that still runs makes or removes a group after the leader has read")
BASE_RULE_LINE(GROUP_REMOVE_AGAIN,
               "a group's home makes it after its removal was asked for, and dies")
BASE_RULE_LINE(GROUP_WATCH_AGAIN, "a new leader is asked before it knows that it leads")
BASE_RULE_LINE(GROUP_VIEW_AGAIN,
               "a node says what it has before the new leader knows that it leads")
BASE_RULE_LINE(GROUP_WANT_VIEWS, "a node comes free after the leader found no room")
BASE_RULE_LINE(GROUP_HOME_SEES,
               "the request that makes a group comes again after the group was removed")
BASE_RULE_LINE(GROUP_ALL_RELEASE,
               "a record is forgotten while a node that has not heard of it holds bundles")
BASE_RULE_LINE(GROUP_ENDED_JOB,
               "a node makes a group, and dies before the leader knows it and after its job ended")
BASE_RULE_LINE(GROUP_NAME_FIRST, "two nodes make groups of the same name")
BASE_RULE_LINE(GROUP_NAME_COMPARE,
               "a group that did not get its name, or had it before, is removed")
BASE_RULE_LINE(GROUP_NAME_NEWER, "a master loses that a name went from one group to another")
