// The verbs objects that an application holds. <uroce/uroce.h> includes everything.
//
// Ownership: each object is a move-only handle. Destroying the handle destroys the verbs object. An object that another
// one still uses (the completion queues, shared receive queue and domain of a queue pair; the domain of a region) lives
// on until that one is destroyed, so the order of destruction does not matter. A moved-from handle can only be
// destroyed or assigned. Threads: several threads may use different objects at once. Control calls (set up, query,
// wait) of one object may come from any thread. The data path calls post_send(), post_recv() and
// CompletionQueue::poll() take one thread at a time for each object and kind of call. They never block, lock or
// allocate. Errors: control calls wait for the engine. Besides the errors named at each, any of them can fail with
// ETIMEDOUT (the engine did not answer within 5 s), ENODEV (the stack was shut down) and EIO (the daemon ended).
#pragma once

#include <uroce/verbs/completion.h>
#include <uroce/verbs/completion_queue.h>
#include <uroce/verbs/context.h>
#include <uroce/verbs/device.h>
#include <uroce/verbs/memory.h>
#include <uroce/verbs/parameters.h>
#include <uroce/verbs/protection_domain.h>
#include <uroce/verbs/queue_pair.h>
#include <uroce/verbs/shared_receive_queue.h>
#include <uroce/verbs/work_requests.h>
