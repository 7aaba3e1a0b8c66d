// EAL's folders of a process ("/var/run/dpdk/PREFIX"). EAL makes one even where it puts nothing there, and leaves it.
#pragma once

#include <filesystem>

#include <uroce/error.h>

namespace uroce::glue {

/// Whether the folder is of a file prefix of uroce's, "uroce-...". Other folders are left as they are.
bool is_own_runtime_folder(const std::filesystem::path& folder);

/// Whether a process has one of the folder's files or sockets: EAL locks its files, and listens on its sockets. True
/// where that cannot be known. `by_others`: for the folder of this process; secondary processes have sockets.
bool is_runtime_folder_in_use(const std::filesystem::path& folder, bool by_others);

/// Before EAL writes to maps of files there: on a full disk that ends the process by SIGBUS. Errors: ENOSPC.
Result<void> check_room_of_runtime_folder();

/// Once EAL runs and shares nothing: an empty folder of ours has no use.
void remove_empty_runtime_folder(const std::filesystem::path& folder);

/// Once EAL has ended. `only_user`: the prefix was made for this process. The folder stays where another
/// process uses it.
void remove_runtime_folder(const std::filesystem::path& folder, bool only_user);

/// Removes the folders beside `own` that programs of uroce have left when they were killed. A folder whose entries
/// changed lately, as of `now`, may be that of a program that starts, and stays.
void remove_stale_runtime_folders(const std::filesystem::path& own, std::filesystem::file_time_type now);

}  // namespace uroce::glue
