// Rows as tables for people and as JSON for programs.
#pragma once

#include <string>
#include <vector>

#include "uroce/rows.h"

namespace uroce::cli {

// Tables, with a newline at the end. There is a column for each name that any object has.
std::string to_table(const std::vector<DeviceRow>& rows);
/// `width`: columns of the screen; 0: no limit.
std::string to_table(const std::vector<ObjectRow>& rows, std::size_t width = 0);
std::string to_table(const std::vector<ClientRow>& rows, std::size_t width = 0);
std::string to_table(const std::vector<UserRow>& rows);
std::string to_table(const std::vector<PeerRow>& rows);
std::string to_table(const RestartRow& row);
std::string to_table(const std::vector<FaultRow>& rows, std::size_t width = 0);

// An array of objects in one line, without a newline. Whole numbers are numbers. Bytes that are not UTF-8 are replaced.
std::string to_json(const std::vector<DeviceRow>& rows);
std::string to_json(const std::vector<ObjectRow>& rows);
std::string to_json(const std::vector<ClientRow>& rows);
std::string to_json(const std::vector<UserRow>& rows);
std::string to_json(const std::vector<PeerRow>& rows);
std::string to_json(const RestartRow& row);
std::string to_json(const std::vector<FaultRow>& rows);

}  // namespace uroce::cli
