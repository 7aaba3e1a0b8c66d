// libibverbs' private table, checked.
#pragma once

#include <uroce/error.h>

#include "dropin/common/verbs_table.h"

namespace uroce::dropin::rdmacm {

/// Whether librdmacm can use `table`. Errors: ELIBACC; the text has the version of each library.
Result<void> check(const VerbsTable& table);

/// Once it is checked (Service::get()).
inline const VerbsTable& verbs_table() { return *uroce_verbs_table(); }

}  // namespace uroce::dropin::rdmacm
