// The documents of the settings, made from the table: the sample config/uroced.toml, of which the manual page is made,
// and the reference config/settings.md.
#pragma once

#include <string>

namespace uroce::daemon {

std::string settings_sample();
std::string settings_reference();

}  // namespace uroce::daemon
