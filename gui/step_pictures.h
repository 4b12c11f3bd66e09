// SPDX-License-Identifier: GPL-3.0-or-later
//
// StepPictures: a view of a recording at one step after the other, as files. Beside the window's own view, which stays as it is.
#pragma once

#include "engine/record/recording.h"
#include "engine/record/result.h"
#include "views/cursor.h"

#include <QSize>
#include <QString>

#include <cstddef>
#include <memory>

namespace kvloupe {

class View;

class StepPictures {
public:
    // view: an id that viewDescriptions() has. Views draw in the colours of the application.
    StepPictures(std::shared_ptr<const Recording> recording, LaneId lane, const QString& view, QSize size);
    ~StepPictures();
    StepPictures(const StepPictures&) = delete;
    StepPictures& operator=(const StepPictures&) = delete;

    Cursor& cursor() { return m_cursor; }  // for what is selected
    View& view() { return *m_view; }
    // PNG (with scale), SVG, PDF or CSV by suffix. Returns why the view shows nothing there, or "". Errors: the file cannot be written.
    Result<QString> write(std::size_t step, const QString& path, double scale);

    // frame.png becomes frame-0040.png and so on, in order by name. What names a folder (it is one, ends with /, or has no suffix)
    // becomes FOLDER/VIEW-0040.png.
    static QString pathOf(const QString& to, const QString& view, std::size_t step, std::size_t lastStep);
    static bool namesFolder(const QString& to);

private:
    Cursor m_cursor;
    std::unique_ptr<View> m_view;
};

}  // namespace kvloupe
