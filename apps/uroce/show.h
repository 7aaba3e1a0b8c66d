// Rows as tables for people and as JSON for programs.
#pragma once

#include <string>
#include <vector>

#include "uroce/rows.h"

namespace uroce::cli {

// Tables, each ending with a newline. Objects have a column for each name that any of them has.
std::string to_table(const std::vector<DeviceRow>& rows);
std::string to_table(const std::vector<ObjectRow>& rows);
std::string to_table(const std::vector<ClientRow>& rows);

// An array of objects in one line, without a newline. Whole numbers are numbers. Text that is no UTF-8 has its bytes
// replaced.
std::string to_json(const std::vector<DeviceRow>& rows);
std::string to_json(const std::vector<ObjectRow>& rows);
std::string to_json(const std::vector<ClientRow>& rows);

}  // namespace uroce::cli
