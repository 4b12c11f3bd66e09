// SPDX-License-Identifier: GPL-3.0-or-later
//
// What an empty window offers: the bundled family, sample scenarios, recent files, each one click; and loading progress.
#pragma once

#include <QWidget>

class QGridLayout;
class QLabel;
class QProgressBar;
class QPushButton;
class QStackedLayout;
class QVBoxLayout;

namespace kvloupe {

// Sample scenarios under resources/scenarios, or in its folder `group` ("faults"): path, title and first comment ("_") of
// each, sorted by file name.
struct SampleScenario {
    QString path;
    QString title;
    QString comment;
};
QList<SampleScenario> sampleScenarios(const QString& group = {});

class StartPage : public QWidget {
    Q_OBJECT

public:
    explicit StartPage(QWidget* parent = nullptr);

    void setRecentFiles(const QStringList& paths);
    void showLoading(double fraction, const QString& what);
    void showOffers();

Q_SIGNALS:
    void bundledRequested();
    void pathRequested(const QString& path);
    void openRequested();
    void cancelRequested();

private:
    QWidget* offers();
    QGridLayout* samples(const QList<SampleScenario>& samples);
    QWidget* loading();

    QStackedLayout* m_stack;
    QVBoxLayout* m_recent = nullptr;
    QLabel* m_recentTitle = nullptr;
    QLabel* m_what = nullptr;
    QProgressBar* m_progress = nullptr;
};

}  // namespace kvloupe
