// SPDX-License-Identifier: GPL-3.0-or-later
//
// Random walks of state that no kernel touches are as long as they are to meet rare states; that their memory is used well shows
// in a part of them, and a sanitizer makes every step several times as long.
#pragma once

namespace kvloupe::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool under_sanitizer = true;
#else
inline constexpr bool under_sanitizer = false;
#endif

}  // namespace kvloupe::test
