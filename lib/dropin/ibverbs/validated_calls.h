// The calls of queues where UROCE_VALIDATE is set. Each tells the validator, and then does what the ordinary call does.
#pragma once

#include "dropin/ibverbs/objects.h"
#include "dropin/ibverbs/verbs_wq.h"

namespace uroce::dropin::validation {

/// These replace calls in tables that were filled with the ordinary ones. They do nothing where validation is off.
void replace_operations(VerbsContext& context);
void replace_operations(VerbsQp& qp);
void replace_operations(VerbsWq& wq);
void replace_operations(VerbsCq& cq);

}  // namespace uroce::dropin::validation
