// Gathers what `uroce doctor` judges.
#pragma once

#include "uroce/doctor.h"
#include "uroce/fetch.h"

namespace uroce::cli {

/// Asks the kernel and the daemon. A question without an answer leaves its fact as it is by default.
Facts gather_facts(const Source& source);

}  // namespace uroce::cli
