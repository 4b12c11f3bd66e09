// SPDX-License-Identifier: GPL-3.0-or-later
//
// View: base of every picture. A view reads the recording up to the cursor and the selection, nothing else.
#pragma once

#include "views/cursor.h"
#include "views/palette.h"

#include <QString>
#include <QWidget>

#include <memory>

class QPainter;

namespace kvloupe {

class View : public QWidget {
    Q_OBJECT

public:
    // id: fixed by the contract ("pool"); title: for the dock head ("Block pool").
    View(QString id, QString title, Cursor* cursor, QWidget* parent = nullptr);

    const QString& id() const { return m_id; }
    const QString& title() const { return m_title; }
    // One line beside the title: what is shown now ("96 blocks of 16 slots").
    QString subtitle() const { return m_subtitle; }

    // What the view shows, as RFC 4180 text with a header row; columns of numbers name unit and origin.
    virtual QString csv() const = 0;
    // Draws the content into `area` (device-independent pixels); used for screen, PNG, SVG and PDF alike.
    virtual void paintContent(QPainter& painter, const QRectF& area) = 0;
    // F: whole range in sight.
    virtual void fit() {}

    // PNG, SVG or PDF by suffix, CSV too; errors as a sentence, "" on success.
    QString exportTo(const QString& path, double scale = 1.0);
    QImage image(double scale = 1.0);

signals:
    void subtitleChanged();
    void emptyAction(const QString& action);  // the one button of an empty view was pressed

protected:
    // The cursor, the selection, the recording or the palette changed and the view is visible: rebuild what is drawn.
    // Hidden views are marked dirty and get this when they are shown.
    virtual void refresh() = 0;

    Cursor* cursor() const { return m_cursor; }
    const Palette& palette_() const;  // colours of the current theme
    void setSubtitle(const QString& subtitle);
    // One sentence and at most one button in the middle; "" removes it.
    void setEmpty(const QString& sentence, const QString& button = {}, const QString& action = {});
    bool isEmptyShown() const { return !m_emptySentence.isEmpty(); }

    void paintEvent(QPaintEvent* event) override;
    void showEvent(QShowEvent* event) override;
    void changeEvent(QEvent* event) override;

private:
    void markDirty();
    void refreshIfVisible();

    QString m_id, m_title, m_subtitle;
    Cursor* m_cursor;
    QString m_emptySentence, m_emptyButton, m_emptyActionName;
    bool m_dirty = true;
};

}  // namespace kvloupe
