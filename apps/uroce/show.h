// Rows as tables for people and as JSON for programs.
#pragma once

#include <string>
#include <vector>

#include "uroce/rows.h"

namespace uroce::cli {

// Tables, each ending with a newline.
std::string to_table(const std::vector<DeviceRow>& rows);
std::string to_table(const std::vector<QpRow>& rows);
std::string to_table(const std::vector<MrRow>& rows);
std::string to_table(const std::vector<CqRow>& rows);
std::string to_table(const std::vector<ClientRow>& rows);

// An array of objects in one line, without a newline. Text that is no UTF-8 has its bytes replaced.
std::string to_json(const std::vector<DeviceRow>& rows);
std::string to_json(const std::vector<QpRow>& rows);
std::string to_json(const std::vector<MrRow>& rows);
std::string to_json(const std::vector<CqRow>& rows);
std::string to_json(const std::vector<ClientRow>& rows);

}  // namespace uroce::cli
