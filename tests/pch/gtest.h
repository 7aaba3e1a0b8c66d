// Precompiled for the larger test targets; see lib/pch/std.h.
#ifndef UROCE_PCH_GTEST_H
#define UROCE_PCH_GTEST_H

#include <gtest/gtest.h>

#include "lib/pch/std.h"

#endif
