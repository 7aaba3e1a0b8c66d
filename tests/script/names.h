// The names that scripts use for enumerators.
#pragma once

#include "record/script_names.h"

namespace uroce::test {

using namespace record::names;

}  // namespace uroce::test
