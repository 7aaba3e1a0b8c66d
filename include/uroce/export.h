// UROCE_API marks the symbols that liburoce.so exports. All others are hidden.
#pragma once

#if defined(__GNUC__)
#define UROCE_API [[gnu::visibility("default")]]
#else
#define UROCE_API
#endif
